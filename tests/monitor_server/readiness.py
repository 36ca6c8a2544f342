"""What a collector says of its readiness."""


def readiness(live):
    """Return the status and the content of its answer."""
    answer = live.pool.request("GET", f"{live.url}/readyz")
    return answer.status, answer.json()
