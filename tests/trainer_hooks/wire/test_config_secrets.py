import pytest

from trainer_hooks.wire import HIDDEN, hide_secrets

LONG = "s3cretS3cretS3cret"


NAMES = """hf_token HFToken hftoken hf_tokens authtoken accesskey secretkey privatekey wandbkey --wandb-key apiKeys
api_key_1 aws-secret-access-key Password password1 PASSWORD_DEV client_secret env_vars environ"""


@pytest.mark.parametrize("name", NAMES.split())
def test_whatever_has_such_a_name_is_hidden(name):
    """The borders of words are marks, capitals and the end of an acronym; a number at the end does not count."""
    config = {name: "s", "of": [{name: {"a": "s"}}], "text": f"lr=1 {name}='s'", f"trainer.{name}.a": "s"}
    assert hide_secrets(config) == {name: HIDDEN, "of": [{name: HIDDEN}], "text": HIDDEN, f"trainer.{name}.a": HIDDEN}


@pytest.mark.parametrize("name", ["AWSKey", "OPENAIKey", "signing_key", "tokens", "TOKEN", "key_2"])
def test_a_text_of_a_key_or_token_is_hidden_if_it_is_long_or_known(name):
    """Other texts of such names are columns of data sets and special tokens of tokenizers."""
    assert hide_secrets({name: [LONG, "hf_x"]}) == hide_secrets({name: [HIDDEN, HIDDEN]})


def test_ordinary_settings_stay():
    """Trainers have many names that end in key or token, and prompts and templates that name them."""
    config = {
        "max_token": 512,
        "pad_token": "<pad>",
        "additional_special_tokens": ["<|im_start|>", "[IMG]"],
        "prompt_key": "prompt",
        "solution_key": "extra_info.ground_truth_solution",
        "instruction_key": "the instruction of a task",
        "monkey": "see no evil, hear no evil",
        "use_auth_token": True,
        "hub_token": None,
        "password": "",
        "attention": {"key": {"bias": False}},
        "env": "search",
        "text": "Config(pad_token='<pad>', prompt_key='prompt', api_key=None, max_tokens=512)",
        "prompt": "Find the key. Question: which token comes first? Answer (in words):",
        "template": "{% set image_token = '<|image|>' %}{{ bos_token }}{{ message['key'] }}",
        "model": "hf_datasets/sk-learn-gradient-boosting_AKIA",
        "image": "http://registry:5000/image@sha256:0123456789abcdef, mailto:me@host",
        "commit": "d670460b4b4aece5915caf5c68d12f560a9fe3e4",
    }
    assert hide_secrets(config) == config


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"a hf_{LONG}.", f"a {HIDDEN}."),
        (f"rlv_{LONG}-_", HIDDEN),
        (f"sk-proj-{LONG}", HIDDEN),
        (f"ghp_{LONG}", HIDDEN),
        ("id AKIAIOSFODNN7EXAMPLE", f"id {HIDDEN}"),
        ("postgres://me:p@ss/w:rd@h:1/db", f"postgres://me:{HIDDEN}@h:1/db"),
        ("http://a:80/b,https://:pass@h", f"http://a:80/b,https://:{HIDDEN}@h"),
        ("curl http://h/?lr=1&api_key=s", HIDDEN),
        ('{"wandb": "{\\\\"password\\\\": \\\\"s\\\\"}"}', HIDDEN),
        ("{'model': 'm', 'token': 'hf_x'}", HIDDEN),
        ("ApiKey('s')", HIDDEN),
        ("authorization: Bearer s", HIDDEN),
    ],
)
def test_a_text_that_looks_like_a_credential_is_hidden_under_any_name(text, shown):
    """What surrounds a credential is shown, unless the text gives a value to the name of a secret; so are keys."""
    assert hide_secrets({"a": text, text: 1}) == {"a": shown, shown: 1}
    assert hide_secrets(shown) == shown
