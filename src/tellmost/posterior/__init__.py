"""What is known about f given what was observed."""
