"""How a selection looks: a figure, and a page that needs nothing else."""
