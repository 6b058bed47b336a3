"""What all benchmarks share: rows of figures, servers in processes of their own, frames and who
plays them."""
