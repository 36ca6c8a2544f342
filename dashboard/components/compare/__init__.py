"""The parts of the page that compares runs: legend, charts, outcomes, differences of the configuration."""
