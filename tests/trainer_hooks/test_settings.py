import time

import numpy as np
import pytest

import trainer_hooks
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.settings import ConnectionSettings, spool_dir

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "RLVITALS_RUN": "r"}


def resolve(environ=None, **arguments):
    """Resolve settings in a given environment, at second 1,700,000,000."""
    url = {"url": "http://127.0.0.1:8600"}
    return ConnectionSettings.resolve(environ=environ or {}, clock=lambda: 1_700_000_000.25, **(url | arguments))


def test_a_key_may_end_in_a_line_end_and_must_fit_a_header():
    """A line end, as of a secret file, is removed from a key; an error names a bad character and not the key."""
    assert resolve({"RLVITALS_URL": "http://a", "RLVITALS_API_KEY": " secret\n"}).api_key == "secret"
    with pytest.raises(ConfigurationError, match=r"visible ASCII characters, got '–' as character 4") as caught:
        resolve({"RLVITALS_URL": "http://a", "RLVITALS_API_KEY": "abc–d"})
    assert "abc" not in str(caught.value)


def test_arguments_take_precedence_over_the_environment():
    """Each setting comes from the argument, else the environment, else its default."""
    environ = {
        "RLVITALS_URL": "https://a:1/base/",
        "RLVITALS_API_KEY": "k",
        "RLVITALS_PROJECT": "p",
        "RLVITALS_RUN": "r",
    }
    settings = resolve(environ, url=None)
    assert (settings.url, settings.api_key, settings.project, settings.run) == ("https://a:1/base", "k", "p", "r")
    settings = resolve(environ, project="q", run="s", api_key="l")
    assert (settings.url, settings.api_key, settings.project, settings.run) == ("http://127.0.0.1:8600", "l", "q", "s")


def test_without_an_address_there_are_no_settings():
    """Without an address no other setting is read, so none can be wrong."""
    assert resolve({"RANK": "x"}, url=None) is None


def test_an_empty_variable_of_ours_counts_as_not_set():
    """A launcher's script may pass on variables that are not set; an empty rank would make every process rank 0."""
    names = ("ATTEMPT", "RUN", "SPOOL_BYTES", "SPOOL_DIR", "RESPONSES", "RESPONSE_BYTES", "RESPONSE_SECONDS", "TEXTS")
    settings = resolve({f"RLVITALS_{name}": "" for name in names}, run="r")
    assert settings == resolve(run="r")
    assert resolve({"RLVITALS_URL": ""}, url=None) is None
    with pytest.raises(ConfigurationError, match="RANK must be an integer, got ''"):
        resolve({"RANK": ""})


def test_a_single_process_counts_attempts_by_its_start():
    """The attempt is the time in milliseconds, so that a later start is higher."""
    assert resolve().attempt == 1_700_000_000_250


def test_no_two_connections_of_a_process_have_one_attempt():
    """The steps of two monitors that connect in one millisecond would be merged."""
    attempts = [ConnectionSettings.resolve(url="http://127.0.0.1:8600", environ={}).attempt for _ in range(1_000)]
    assert len(set(attempts)) == 1_000
    assert attempts == sorted(attempts)


def test_a_single_process_gets_a_readable_name():
    """The name of a run consists of two words and the time."""
    assert len(resolve().run.split("-")) == 4


def test_ranks_of_one_node_share_the_launchers_start():
    """All ranks of a launch have one attempt; a restart has a higher one, with room for rewinds in between."""
    first = resolve(TORCHRUN)
    again = resolve(TORCHRUN | {"RANK": "0"})
    restarted = resolve(TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "1"})
    assert first.attempt == again.attempt
    assert first.attempt + 1000 == restarted.attempt
    assert (first.rank, first.world_size) == (3, 4)
    # The parent of this test started after 2020 and before now.
    assert 1_577_836_800_000 < first.attempt < time.time() * 1000


def test_some_ranks_of_a_launch_share_its_attempt_under_numbers_of_their_own():
    """Where some ranks train and the others generate, only those that train log steps; others may not be counted in."""
    first = resolve(TORCHRUN, rank=0, world_size=2)
    assert first.attempt == resolve(TORCHRUN | {"RANK": "1"}, rank=1, world_size=2).attempt == resolve(TORCHRUN).attempt
    with pytest.raises(ConfigurationError, match="8 ranks must have one attempt number"):
        resolve(TORCHRUN, rank=0, world_size=8)


def test_nodes_under_slurm_share_the_jobs_start():
    """The attempt is the job's start in ms; a requeue or another job is later, and a node's restarts are ignored."""
    slurm = TORCHRUN | {"WORLD_SIZE": "8", "SLURM_JOB_ID": "71", "SLURM_JOB_START_TIME": "1700000000"}
    assert resolve(slurm).attempt == 1_700_000_000_000 < resolve().attempt
    assert resolve(slurm | {"TORCHELASTIC_RESTART_COUNT": "1"}).attempt == 1_700_000_000_000


def test_the_attempt_can_be_set():
    """RLVITALS_ATTEMPT is used; restarts are added where one node's agent counts them for all ranks."""
    several = TORCHRUN | {"RLVITALS_ATTEMPT": "12", "TORCHELASTIC_RESTART_COUNT": "3"}
    assert resolve(several).attempt == 3012
    assert resolve(several | {"WORLD_SIZE": "8"}).attempt == 12


def test_whitespace_around_an_address_does_not_count():
    """A value from a file ends with the line's end."""
    assert resolve(url="http://127.0.0.1:8600/ \n").url == "http://127.0.0.1:8600"


def test_a_number_may_be_a_text():
    """Scripts pass on variables of the environment."""
    made = resolve(run="r", rank="1", world_size="2", responses="3", environ={"RLVITALS_ATTEMPT": "5"})
    assert (made.rank, made.world_size, made.responses) == (1, 2, 3)


@pytest.mark.parametrize("given", [None, "", "default"])
def test_a_project_that_is_not_named_is_that_of_the_environment(given):
    """A script passes on None where it was started without the option, and no project has that name."""
    assert resolve(project=given).project == "default"
    assert resolve({"RLVITALS_PROJECT": "p"}, project=given).project == "p"


def test_a_name_may_be_a_number():
    """Frameworks pass on the values of their configuration files."""
    assert (resolve(run=7).run, resolve(project=2).project) == ("7", "2")
    environ = {"RLVITALS_RUN": "other", "RLVITALS_PROJECT": "other"}
    assert (resolve(environ, run=0).run, resolve(environ, project=0).project) == ("0", "0")


def test_a_number_or_a_switch_may_have_any_type_that_equals_it():
    """Arguments of a command line and of numpy are 0.0, 1 or np.True_ where they mean 0 and True."""
    made = resolve(rank=0.0, world_size=np.float64(1), responses=2.0, texts=1)
    assert (made.rank, made.world_size, made.responses, made.texts) == (0, 1, 2, True)
    assert [resolve(texts=given).texts for given in (np.True_, np.False_, 0, "false", "True")] == [1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("environ", "arguments", "message"),
    [
        ({}, {"url": "127.0.0.1:8600"}, "url must look like http://host:8600, got '127.0.0.1:8600'"),
        ({}, {"url": "http://h:70000"}, "url must look like http://host:8600, got 'http://h:70000'"),
        ({}, {"url": "http://[::1"}, "url must look like http://host:8600"),
        ({}, {"url": "http://a b:8600"}, "url must look like http://host:8600"),
        ({}, {"url": "http://h:8600/?key=k"}, "url must look like http://host:8600"),
        ({}, {"url": "https://me:secret@h:1/"}, "url must have no user or password, got one before 'h:1'; give a key"),
        ({}, {"url": "http://me:secret@h:99999"}, "url must have no user or password, got one before 'h:99999'"),
        ({}, {"url": "http://me:sec/ret@h?a=1"}, r"url must have no user or password, got one before 'h\?a=1'"),
        ({}, {"url": "me:secret@[::1"}, r"url must have no user or password, got one before '\[::1'"),
        ({}, {"rank": 2, "world_size": 2}, "rank must be .*, got rank 2 of 2"),
        ({"RANK": "one"}, {}, "RANK must be an integer, got 'one'"),
        ({"WORLD_SIZE": "2"}, {}, "a run of 2 ranks must have one name for all of them; set RLVITALS_RUN"),
        ({"WORLD_SIZE": "2"}, {"run": "r"}, "must have one attempt number, .*; set RLVITALS_ATTEMPT .* in ms"),
        (
            {"WORLD_SIZE": "2", "SLURM_JOB_ID": "71"},
            {"run": "r"},
            "must have one attempt number, .*; set RLVITALS_ATTEMPT",
        ),
        (
            {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "7", "PET_NNODES": "1:2"},
            {"run": "r"},
            "2 ranks, and those of nodes that join later, must have one attempt number, .*; set RLVITALS_ATTEMPT",
        ),
        ({"RLVITALS_ATTEMPT": "0"}, {}, "RLVITALS_ATTEMPT must be at least 1 and at most .*, got 0"),
        # $(date +%s%N), in ns and not in ms
        ({"RLVITALS_ATTEMPT": "1796080280624679101"}, {}, "RLVITALS_ATTEMPT .*, got 1796080280624679101; set it to a"),
        ({}, {"rank": 0.5, "world_size": 2}, r"rank \(RANK\) must be an integer, got 0.5"),
        ({}, {"rank": float("inf")}, r"rank \(RANK\) must be an integer, got inf"),
        ({}, {"responses": "two"}, r"responses \(RLVITALS_RESPONSES\) must be an integer, got 'two'"),
        ({}, {"texts": "yes"}, r"texts \(RLVITALS_TEXTS\) must be 1, 0, true or false, got 'yes'"),
        ({}, {"url": 8600}, "url must look like http://host:8600, got '8600'"),
        ({}, {"api_key": b"secret"}, r"api_key \(RLVITALS_API_KEY\) must be text, got a bytes$"),
        ({"RLVITALS_RUN": "two\nlines"}, {}, r"run \(RLVITALS_RUN\) must have 1 to 200 printable characters .*two"),
        ({}, {"run": "r" * 201}, "run .* must have 1 to 200 printable characters"),
        ({}, {"run": "\udcff"}, "run .* must have 1 to 200 printable characters"),
        ({}, {"project": " p"}, "project .* no blanks around them, got ' p'"),
    ],
)
def test_an_invalid_setting_is_refused_before_training(environ, arguments, message):
    """Each message has the rule and the next step."""
    with pytest.raises(ConfigurationError, match=message):
        resolve(environ, **arguments)


def test_a_spool_that_cannot_be_made_is_refused_if_it_is_the_only_place_for_records(tmp_path, monkeypatch):
    """A file in the place of the spool is an error offline, where the spool is the only place for records."""
    (tmp_path / "spool").write_text("in the way")
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path / "spool"))
    with pytest.raises(ConfigurationError, match=r"RLVITALS_SPOOL_DIR must be a writable folder .*spool'"):
        trainer_hooks.connect(run="r")
    (tmp_path / "spool").unlink()
    trainer_hooks.connect(run="r").close()


def test_a_spool_in_a_working_directory_that_was_removed_is_refused_only_if_it_is_needed(
    tmp_path, monkeypatch, collector, caplog
):
    """With an address the records stay in memory, as with any other folder that cannot be made."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", "spool")
    with pytest.raises(ConfigurationError, match=r"RLVITALS_SPOOL_DIR must be a writable folder .*'spool'"):
        trainer_hooks.connect(run="r")
    with trainer_hooks.connect(collector.url, run="r") as monitor:
        monitor.log_step(1, {"x": 1.0})
    assert [record.scalars for record in collector.records] == [{"x": 1.0}]
    assert "records are kept only in memory, because the spool fails" in caplog.text


@pytest.mark.parametrize("name", ["RLVITALS_SPOOL_DIR", "XDG_CACHE_HOME"])
def test_the_spool_stays_where_it_is_when_the_script_changes_its_folder(tmp_path, monkeypatch, name):
    """Batches would be sought in another folder, and counted as lost."""
    monkeypatch.chdir(tmp_path)
    assert spool_dir({name: "cache"}).is_relative_to(tmp_path / "cache")


def test_actions_must_be_a_policy():
    """A mapping of rules is refused as `actions`, because it does not say whether the rules are a dry run."""
    with pytest.raises(ConfigurationError, match="actions must be an ActionPolicy"):
        trainer_hooks.connect("http://127.0.0.1:1", actions={"critical": "stop"})


def test_on_alert_must_be_a_plain_function():
    """Nothing would await an async one, and no alert would reach its user."""

    async def page(_notice):
        """Do nothing."""

    with pytest.raises(ConfigurationError, match="on_alert must be a plain function"):
        trainer_hooks.connect("http://127.0.0.1:1", on_alert=page)


@pytest.mark.parametrize("name", ["on_alert", "redact"])
def test_what_is_called_later_must_be_a_function(name):
    """Otherwise the mistake would show at the first alert, whose only notice would be lost."""
    with pytest.raises(ConfigurationError, match=f"{name} must be a function, got 'slack'"):
        trainer_hooks.connect("http://127.0.0.1:1", **{name: "slack"})
