"""A run whose processes start, end and fall silent at random, and its twin."""

from monitor_server.alerts.acknowledgement import AlertAcknowledgement, acknowledge
from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.ingest.reset import reset_run
from monitor_server.settings import Settings
from monitor_server.step_processing.quarantine import QUARANTINE_SECONDS
from tests.monitor_server.simulated_collectors import project_some, read_fields
from tests.monitor_server.step_processing.compared_runs import Comparison

STALLED, LOST, EXPIRED = 2e5, 2e6, 1e7  # seconds of silence
SETTINGS = Settings(
    step_deadline_seconds=1e4,
    stall_minimum_seconds=1e5,
    lost_factor=10,
    lost_expiry_seconds=5e6,
    max_waiting_steps=12,
    max_signals=5,
)
ALERT = ("kind", "severity", "state", "stage", "opened_step", "severity_step", "last_step", "resolved_step", "note")


def _comparable_alerts(repositories, run_id):
    """Return alerts without what depends on the moment at which a collector has noticed silence.

    Silence between two messages is noticed only by a collector that projects between them. So the alerts of silence
    stand last, without the past ones, and another alert may have opened before or after the silence.
    """
    alerts = repositories.alerts.page(limit=1_000, run_id=run_id)
    noticed = [row for row in alerts if row["state"] != "resolved" or not is_clock_kind(row["kind"])]
    ordered = sorted(noticed, key=lambda row: is_clock_kind(row["kind"]))
    return [row | ({"stage": "firing"} if row["stage"] == "no_data" else {}) for row in ordered]


class Life(Comparison):
    """A run whose processes start, end and fall silent, and its twin that one collector projects at once."""

    settings = SETTINGS

    def live(self, turns):
        """Do random things, and compare both runs whenever everything is projected."""
        draw = self.draw
        self.trainer.launch()
        self.trainer.log_steps()
        for _ in range(turns):
            chance = draw.random()
            if chance < 0.05:
                self.trainer.launch()
            elif chance < 0.25 or not self.trainer.records:
                self.trainer.log_steps()
            elif chance < 0.5:
                self.send()
            elif chance < 0.65:
                self.say()
            elif chance < 0.85:
                project_some(draw, self.collectors, self.cut_id, self.clock, interruptions=[self.send, self.say])
            elif chance < 0.93:
                self.settle_and_check()
                draw.choice([self.acknowledge] * 3 + [self.reset, self.quarantine, self.delete])()
            else:
                self.settle_and_check()
                self.clock.now += draw.choice((STALLED, LOST, EXPIRED))
                self.settle_and_check()
        self.settle_and_check()

    def say(self):
        """Report the start, the end or a sign of life of a process, perhaps of an earlier attempt."""
        draw = self.draw
        attempt = draw.choice([self.trainer.attempt, *self.trainer.world_sizes])
        size = self.trainer.world_sizes[attempt]
        said = draw.choice(({}, {"config": {"lr": 1}}, {"end": "finished"}, {"end": "stopped"}))
        fields = {"attempt": attempt, "rank": draw.randrange(size), "world_size": size} | said
        crash = draw.choice((None, None, "before the commit", "after the commit"))
        if draw.choice(self.collectors).append([self.statement(self.names[0], fields)], crash=crash) is not None:
            self.tell_twin(self.statement(self.names[1], fields))
            self.is_known = True

    def statement(self, name, fields):
        """Return a batch without records."""
        return read_fields({"run": name} | fields, settings=SETTINGS, now=self.clock.now)

    is_known = False

    def tell_twin(self, batch):
        """Append a batch to the twin, which is projected at once."""
        assert self.whole.append([batch]) is not None
        while self.whole.project(self.whole_id):
            pass

    def deliver(self, collector, parts, **options):
        """Append batches to the run, and those that were stored to its twin, as a whole."""
        parts = [part for part in parts if part[2]]
        appended = collector.append([self._batch(*part, name=self.names[0]) for part in parts], **options)
        for part, result in zip(parts, appended or (), strict=False):
            self.tell_twin(self._batch(*part, name=self.names[1]))
            new = {(*part[:2], record["seq"]) for record in part[2]} - self.stored
            assert result.accepted == len(new)
            self.stored |= new

    def settle_and_check(self):
        """Project both runs to their ends, and compare all that is known of them."""
        if not self.stored and not self.is_known:
            return
        self.stored.add(None)  # `settle` projects a run that has records
        self.settle()
        self.stored.discard(None)
        assert self.known(self.cut_id) == self.known(self.whole_id)

    def known(self, run_id):
        """Return what is known of a run, except when it was done."""
        with self.collectors[0].store.read() as repositories:
            run = repositories.runs.find(run_id)
            view = repositories.run_views.find(run_id, now=self.clock.now, deadlines=SETTINGS.deadlines)
            alerts = _comparable_alerts(repositories, run_id)
            assert view["status"] == run.announced
            return self.outcome(run_id) | {
                "status": (run.announced, run.ended, run.ended_rank),
                "alerts": [tuple(row[name] for name in ALERT) for row in alerts],
            }

    def acknowledge(self):
        """Acknowledge an alert of both runs."""
        with self.collectors[0].store.write() as repositories:
            both = [_comparable_alerts(repositories, run_id) for run_id in (self.cut_id, self.whole_id)]
            if both[0]:
                place = self.draw.randrange(len(both[0]))
                for run_id, alerts in zip((self.cut_id, self.whole_id), both, strict=True):
                    given = AlertAcknowledgement(run_id=run_id, alert_id=alerts[place]["id"], by="ann", note="seen")
                    acknowledge(repositories, given, now=self.clock.now)

    def reset(self):
        """Let both runs go on in one of their newest attempts, perhaps with another number of ranks."""
        draw = self.draw
        with self.collectors[0].store.write() as repositories:
            if not repositories.runs.exists(self.cut_id):
                return
            numbers = list(repositories.attempts.ordinals(self.cut_id))
            options = {"attempt": max(1, len(numbers) - draw.choice((0, 0, 1, 2)))}
            if draw.random() < 0.3:
                options["world_size"] = draw.choice((1, 2, 3))
            for run_id in (self.cut_id, self.whole_id):
                reset_run(repositories, run_id, now=self.clock.now, **options)
                while repositories.deletion.remove_attempt_rows(run_id, limit=100):
                    pass
        self.stored = {key for key in self.stored if key[0] <= numbers[options["attempt"] - 1]}
        self.settle_and_check()  # the next batch of a rank raises a number of ranks that was too low

    def quarantine(self):
        """Quarantine both runs until time has passed."""
        with self.collectors[0].store.write() as repositories:
            for run_id in (self.cut_id, self.whole_id):
                self.whole.projection.quarantine(repositories, run_id, ValueError("damaged"))
        self.clock.now += QUARANTINE_SECONDS

    def delete(self):
        """Delete both runs, which begin anew with the next batch."""
        with self.collectors[0].store.write() as repositories:
            both = [self.cut_id, self.whole_id]
            repositories.deletion.begin_deletion(both, now=self.clock.now)
            for run_id in both:
                while repositories.deletion.remove_rows(run_id, limit=100):
                    pass
        self.stored, self.is_known = set(), False
        self.clock.now += 1
