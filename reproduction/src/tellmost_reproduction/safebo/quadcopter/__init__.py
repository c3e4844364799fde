"""A quadcopter whose feedback gains are to be tuned without a crash."""
