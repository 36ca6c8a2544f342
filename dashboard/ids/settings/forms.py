"""The fields of the forms of settings."""


def field(form: str, name: str) -> str:
    """Return the id of a field of a form of settings."""
    return f"{form}-field-{name.replace('_', '-')}"


def part(form: str, name: str) -> str:
    """Return the id of the element that holds a field of a form of settings, with its label."""
    return f"{form}-part-{name.replace('_', '-')}"


def problem(form: str, name: str) -> str:
    """Return the id of the place for the problem of a field of a form of settings."""
    return f"{form}-problem-{name.replace('_', '-')}"
