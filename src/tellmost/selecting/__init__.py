"""From the call of select to the Selection."""
