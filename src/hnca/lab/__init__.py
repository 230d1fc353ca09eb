"""What runs the core: data, experiments, training, sweeps, reports and the command line."""
