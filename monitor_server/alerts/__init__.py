"""An alert's life: opened by a finding, kept, resolved."""
