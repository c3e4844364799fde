"""The paper's experiments with neural networks: figure 4, its appendix H, and the rho table."""
