"""Page elements of one alert: evidence, explanation, actions, token strips."""
