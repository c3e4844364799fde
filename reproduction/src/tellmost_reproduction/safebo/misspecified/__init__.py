"""Beyond the paper: what wrong lengthscales cost, and whether anything warns of them."""
