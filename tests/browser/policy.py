"""Checks the content security policy of an answer."""

__all__ = ["check_policy"]


def check_policy(answer):
    """The answer with a page allows no script but those that it names."""
    policy = answer.header_value("content-security-policy")
    assert "default-src" in policy
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
