"""A model of what each channel must be told of alerts, which is compared with the messages that are formed."""

import json
from dataclasses import dataclass, field

from sqlalchemy import select

from monitor_server.store.repositories.notifications.messages import FORMER
from monitor_server.store.tables import notification_events, notification_messages
from tests.store_connections import current_connection

__all__ = ["ExpectedNotifications"]

RANKS = {"info": 0, "warning": 1, "critical": 2}
FIRES, UNANSWERED, RESOLVED = "fires", "unacknowledged", "resolved"
SUBJECT = {"opened": FIRES, "raised": FIRES, "unacknowledged": UNANSWERED, "resolved": RESOLVED}


@dataclass
class ExpectedNotifications:
    """What channels must be told: keys of run, alert, severity, channel and subject.

    Attributes:
        document: The channels and routes in force.
        alerts: Each alert as it was last seen.
        pending: What no message contains yet, with the time from which it may be sent.
        formed: The message that contains it.
        excused: What need not arrive, because its channel was removed or its run was deleted.
        given_up: The messages that a channel has refused for so long that they are not tried again.
        instead_of: The channel in whose place the fallback must be told.
    """

    document: dict = field(default_factory=dict)
    alerts: dict = field(default_factory=dict)
    pending: dict = field(default_factory=dict)
    formed: dict = field(default_factory=dict)
    excused: set = field(default_factory=set)
    given_up: set = field(default_factory=set)
    instead_of: dict = field(default_factory=dict)

    def missing(self, delivered):
        """Return what channels were not told by the messages that were delivered."""
        unsent = [key for key, id_ in self.formed.items() if id_ not in delivered and id_ not in self.given_up]
        return {*self.pending, *unsent} - self.excused

    def use(self, document):
        """Follow another document; what waits for a channel that it lacks may be lost."""
        gone = self.document.get("channels", {}).keys() - document["channels"].keys()
        self.document = document
        self.excused |= {key for key in (*self.pending, *self.formed) if key[3] in gone}

    def forget_run(self, run_id):
        """Expect nothing more of a run that is deleted; a message that was formed may still be sent."""
        self.alerts = {id_: alert for id_, alert in self.alerts.items() if alert["run_id"] != run_id}
        self._drop(lambda key: key[0] == run_id)
        self.excused |= {key for key in self.formed if key[0] == run_id}

    def see_alert(self, row, *, now):
        """Note how an alert has changed since it was last seen."""
        before, self.alerts[row["id"]] = self.alerts.get(row["id"]), row
        was_firing = before is not None and before["state"] == "firing"
        if row["state"] == "resolved":
            # An alert may open, become more severe and end in one slice.
            if row["silence_id"] is None and (before is None or (was_firing and before["severity"] != row["severity"])):
                self._expect_all(row, now)
            if was_firing or before is None:
                self._see_end(row, now)
        elif row["silence_id"] is not None:
            self._drop(lambda key: key[1] == row["id"])
        elif row["state"] == "firing":
            severity, is_answered = row["severity"], row["acknowledged_at"] is not None
            self._drop(lambda key: key[1] == row["id"] and key[4] == UNANSWERED and (is_answered or key[2] != severity))
            is_released = was_firing and before["silence_id"] is not None and not is_answered
            if is_released:
                lost = [key for key, id_ in self.formed.items() if key[1] == row["id"] and id_ in self.given_up]
                for key in [key for key in lost if key[2] == severity]:
                    del self.formed[key]
            if is_released or not was_firing or before["severity"] != severity:
                self._expect_all(row, now)

    def _expect_all(self, row, now):
        """Expect that the channels of the routes are told, and those of escalations some minutes later."""
        routes = self._routes(row)
        for name in {name for route in routes for name in route["channels"]}:
            self._expect(_key(row, name, FIRES), now)
        for level in [level for route in routes for level in route["escalate"]]:
            for key in [_key(row, name, UNANSWERED) for name in level["channels"]]:
                if key not in self.formed:
                    due_at = now + 60.0 * level["after_minutes"]
                    self.pending[key] = min(due_at, self.pending.get(key, due_at))

    def _see_end(self, row, now):
        """Expect that the channels that were told of an alert are told of its end, unless their routes leave it out."""
        is_silenced = row["silence_id"] is not None
        self._drop(lambda key: key[1] == row["id"] and (is_silenced or key[4] == UNANSWERED))
        if is_silenced:
            return
        keys = [key for key in (*self.pending, *self.formed) if key[1] == row["id"] and key[4] != RESOLVED]
        wanting = {key[3] for key in keys if self._is_end_wanted(key, row)}
        for name in wanting & self.document["channels"].keys():
            self._expect(_key(row, name, RESOLVED), now)
            if any(key in self.excused for key in keys if key[3] == name):
                self.excused.add(_key(row, name, RESOLVED))

    def _is_end_wanted(self, key, row):
        name = self.instead_of.get(key, key[3])
        routes = [route for route in self._routes(row | {"severity": key[2]}) if name in _all_channels(route)]
        return any(route["resolved"] for route in routes) or not routes

    def see_failure(self, message, file, *, now):
        """Expect no more of a message that was refused for too long, but of the fallback of a collector what it had."""
        if now - message.created_at < 3600.0 * file.limits.give_up_hours or FORMER in message.channel:
            return
        self.given_up.add(message.id)
        self._expect_of_fallback(message.id, message.channel, file.fallback, now)

    def see_late(self, file, *, now):
        """Expect of the fallback of a collector, which forms messages in an open transaction, what is refused."""
        message = notification_messages.c
        is_open = message.sent_at.is_(None) & message.given_up_at.is_(None) & (message.attempts > 0)
        query = select(message.id, message.channel, message.created_at).where(is_open)
        for message_id, channel, created_at in current_connection().execute(query).all():
            if file.fallback is not None and now - created_at >= 60.0 * file.fallback.after_minutes:
                self._expect_of_fallback(message_id, channel, file.fallback, now)

    def _expect_of_fallback(self, message_id, channel, fallback, now):
        """Expect of a fallback what a message holds, and what waits after it."""
        if fallback is None or fallback.channel == channel:
            return
        due = [key for key, at in self.pending.items() if key[3] == channel and at <= now]
        due += [key for key, id_ in self.formed.items() if id_ == message_id]
        for run_id, alert_id, severity, _, subject in due:
            alert = self.alerts.get(alert_id)
            if alert is None or alert["silence_id"] is not None:
                continue
            if subject == UNANSWERED and not _is_unanswered(alert, severity):
                continue
            key = run_id, alert_id, severity, fallback.channel, subject
            if key not in self.pending and key not in self.formed:
                self.instead_of[key] = channel
            self._expect(key, now)
            if fallback.channel not in self.document["channels"]:  # the collector has not read the newest document
                self.excused.add(key)

    def see_messages(self, run_ids, *, now):
        """Compare what the messages about some runs contain, in an open transaction, with what must be told now."""
        event, message = notification_events.c, notification_messages.c
        key = event.run_id, event.alert_id, event.severity, event.channel, event.change
        query = select(*key, message.id, message.body).join(notification_messages, message.id == event.message_id)
        rows = current_connection().execute(query.where(event.run_id.in_(run_ids))).all()
        for run_id, alert_id, severity, channel, change, message_id, body in rows:
            key = run_id, alert_id, severity, channel, SUBJECT[change]
            if self.formed.get(key) == message_id:
                continue
            assert key in self.pending, f"nobody must be told {key}"
            assert self.pending.pop(key) <= now, f"nobody must be told {key} yet"
            self.formed[key] = message_id
            named = {alert["id"]: alert["changes"] for alert in json.loads(body)["alerts"]}
            assert change in named[alert_id]
            if change == "unacknowledged":
                assert _is_unanswered(self.alerts[alert_id], severity), key

    def _expect(self, key, due_at):
        if key not in self.pending and key not in self.formed:
            self.pending[key] = due_at

    def _drop(self, condition):
        for key in [key for key in self.pending if condition(key)]:
            del self.pending[key]

    def _routes(self, row):
        rank = RANKS[row["severity"]]
        found = [
            route for route in self.document["routes"] if rank >= RANKS[route["severity"]] and _concerns(route, row)
        ]
        return found[:1] if self.document["match"] == "first" else found


def _key(row, channel, subject):
    return row["run_id"], row["id"], row["severity"], channel, subject


def _is_unanswered(alert, severity):
    return (alert["state"], alert["acknowledged_at"], alert["severity"]) == ("firing", None, severity)


def _concerns(route, row):
    return not route["projects"] or row["project"] in route["projects"]


def _all_channels(route):
    return [*route["channels"], *(name for level in route["escalate"] for name in level["channels"])]
