"""What all experiments have in common: requests, verdicts, numbers, folders, publishing."""
