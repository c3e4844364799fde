"""Where rows come from, and the pool that holds them."""
