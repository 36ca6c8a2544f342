"""Errors of a request that conflicts with the stored data."""

from monitor_server.errors.base import CollectorError

__all__ = ["KeyNameTaken", "RequestNotPossible", "RuleConflict", "RunActive", "SettingsConflict", "TooManyViews"]


class RunActive(CollectorError):
    """The trainer of the run still sends."""

    status = 409


class KeyNameTaken(CollectorError):
    """A key of this name is in use."""

    status = 409


class RuleConflict(CollectorError):
    """A rule conflicts with others or with the request: its name is taken, or a run that it needs is to be deleted."""

    status = 409


class TooManyViews(CollectorError):
    """The number of saved views has reached its limit."""

    status = 409


class SettingsConflict(CollectorError):
    """Another person has saved the settings meanwhile, or a file or the environment sets them."""

    status = 409


class RequestNotPossible(CollectorError):
    """The trainer of a run cannot receive this request now."""

    status = 409
