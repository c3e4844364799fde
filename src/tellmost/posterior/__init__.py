"""A posterior says what is known about f, given what was observed."""
