"""An action of a trainer, as the API returns it."""

ACTION = {
    "action": "stop",
    "outcome": "taken",
    "alert_id": "a1",
    "reason": "critical drift, open since step 3: it falls",
    "detail": "",
    "attempt": 1,
    "step": 41,
    "rank": 0,
    "time": 100.0,
}
