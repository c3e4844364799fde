"""The paper's experiments with Gaussian processes: figures 2 and 3, and its appendix G."""
