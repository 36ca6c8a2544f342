"""Page elements of the comparison of runs: controls, outcomes, differences of the configuration."""
