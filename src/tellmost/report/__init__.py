"""What a selection looks like: a figure, and a page that stands alone."""
