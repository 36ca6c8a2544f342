"""Requests from one OpenID Connect provider: its description, its keys, and the person who has signed in.

Authlib builds the requests and checks the claims; joserfc, its library for signatures, checks the signature. Only
signatures by a private key are accepted. So ``none`` is refused, and so is a token that is signed with the public key
in place of a shared secret.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet, import_key

from monitor_server.access.oidc.configuration import OidcConfiguration, is_safe_address
from monitor_server.access.oidc.fetching import fetch_json
from monitor_server.access.oidc.pending_sign_ins import PendingSignIn
from monitor_server.durations import HOUR_SECONDS
from monitor_server.errors import SignInRefused
from monitor_server.text_safety.printable import printable

__all__ = ["Provider"]

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
ASYMMETRIC: Final = ("RSA", "EC", "OKP")
LEEWAY_SECONDS: Final = 60  # the largest difference of the clocks of the provider and of this machine
OK: Final = 200
DESCRIPTION_SECONDS: Final = HOUR_SECONDS  # the time for which the provider's description and its keys are kept
RETRY_SECONDS: Final = 5.0  # the time for which a failure is answered without another request
KEYS_SECONDS: Final = 30.0  # the time for which an unknown key is not looked for again
LONGEST_TOKEN: Final = 64 * 1024
ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Provider:
    """One provider.

    Args:
        configuration: The provider, and the client's identity there.
        clock: Returns seconds since the epoch from the machine's clock, because it is compared with the provider's. The
            collector's own clock stops while its machine sleeps.
        monotonic: Returns seconds that no jump of the machine's clock moves.
    """

    def __init__(
        self,
        configuration: OidcConfiguration,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configuration = configuration
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._description: Mapping[str, Any] = {}
        self._described_at = self._keys_at = self._failed_at = -DESCRIPTION_SECONDS
        self._failure: SignInRefused | None = None
        self._keys: KeySet | None = None

    def authorization_url(self, pending: PendingSignIn) -> str:
        """Return the address at which a person signs in.

        Raises:
            SignInRefused: If the provider has no valid description, or names no address that is safe for a browser.
        """
        given = self._configuration
        address = self._describe()["authorization_endpoint"]
        if not (is_safe_address(address) and address.isascii() and address.isprintable()):
            shown = printable(address, longest=200)
            raise SignInRefused(
                "provider", f"an authorization_endpoint of the provider must begin with https://, got {shown}"
            )
        return str(
            prepare_grant_uri(
                address,
                client_id=given.client_id,
                response_type="code",
                redirect_uri=given.redirect_uri,
                scope=given.scopes,
                state=pending.state,
                nonce=pending.nonce,
                code_challenge=create_s256_code_challenge(pending.verifier),
                code_challenge_method="S256",
            )
        )

    def redeem(self, code: str, pending: PendingSignIn) -> Mapping[str, Any]:
        """Exchange a code for an ID token, and return its claims after all checks.

        Raises:
            SignInRefused: If the provider refuses the code, or the token does not belong to this sign-in.
        """
        given, description = self._configuration, self._describe()
        method = _client_authentication(description)
        body = prepare_token_request(
            "authorization_code", redirect_uri=given.redirect_uri, code=code, code_verifier=pending.verifier
        )
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        address, headers, body = ClientAuth(given.client_id, given.client_secret, method).prepare(
            "POST", description["token_endpoint"], headers, body
        )
        status, answer = fetch_json("POST", address, body=body, headers=headers)
        token = answer.get("id_token")
        if status != OK or not isinstance(token, str) or len(token) > LONGEST_TOKEN:
            reason = printable(str(answer.get("error", "no ID token")), longest=100)
            raise SignInRefused("refused", f"the provider refused the code with status {status}: {reason}")
        return self._verify(token, answer.get("access_token"), pending)

    def _verify(self, token: str, access_token: object, pending: PendingSignIn) -> Mapping[str, Any]:
        given = self._configuration
        try:
            decoded = self._decode(token)
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                options={
                    "iss": {"essential": True, "value": given.issuer},
                    "aud": {"essential": True, "value": given.client_id},
                },
                params={"nonce": pending.nonce, "client_id": given.client_id, "access_token": access_token},
            )
            claims.validate(now=int(self._clock()), leeway=LEEWAY_SECONDS)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            problem = printable(str(error) or type(error).__name__, longest=200)
            raise SignInRefused("invalid", f"the provider's ID token is not valid: {problem}") from error
        return dict(claims)

    def _decode(self, token: str) -> jwt.Token:
        """Check the signature; an unknown key may be new, so the keys are read once more."""
        described = self._describe().get("id_token_signing_alg_values_supported", ["RS256"])
        algorithms = [name for name in ALGORITHMS if name in described]
        try:
            return jwt.decode(token, self._known_keys(), algorithms=algorithms)
        except (JoseError, ValueError):
            newer = self._newer_keys()
            if newer is None:
                raise
            return jwt.decode(token, newer, algorithms=algorithms)

    def _describe(self) -> Mapping[str, Any]:
        with self._lock:
            now = self._monotonic()
            if self._description and now - self._described_at < DESCRIPTION_SECONDS:
                return self._description
            if self._failure is not None and now - self._failed_at < RETRY_SECONDS:
                raise SignInRefused(self._failure.reason, str(self._failure))
            try:
                self._description = self._fetch_description()
            except SignInRefused as error:
                self._failure, self._failed_at = error, self._monotonic()
                raise
            self._described_at, self._failure = now, None
            return self._description

    def _fetch_description(self) -> Mapping[str, Any]:
        issuer = self._configuration.issuer
        status, found = fetch_json("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if status != OK or found.get("issuer") != issuer:
            named = printable(str(found.get("issuer")), longest=200)
            raise SignInRefused(
                "provider", f"the provider must describe itself as RLVITALS_OIDC_ISSUER, {issuer!r}, got {named!r}"
            )
        for name in ENDPOINTS:
            if not isinstance(found.get(name), str):
                raise SignInRefused("provider", f"the provider must name its {name}")
        return found

    def _known_keys(self) -> KeySet:
        """Return the provider's keys, which are read again after an hour."""
        address = self._describe()["jwks_uri"]
        with self._lock:
            if self._keys is None or self._monotonic() - self._keys_at >= DESCRIPTION_SECONDS:
                self._keys = self._fetch_keys(address)
            return self._keys

    def _newer_keys(self) -> KeySet | None:
        """Read the provider's keys again; return None if this happened a moment ago."""
        address = self._describe()["jwks_uri"]
        with self._lock:
            if self._monotonic() - self._keys_at < KEYS_SECONDS:
                return None
            self._keys = self._fetch_keys(address)
            return self._keys

    def _fetch_keys(self, address: str) -> KeySet:
        _, found = fetch_json("GET", address)
        keys = _usable_keys(found)
        if not keys:
            raise SignInRefused("provider", "none of the provider's keys can be read")
        self._keys_at = self._monotonic()
        return KeySet(keys)


def _usable_keys(found: Mapping[str, Any]) -> list[Key]:
    """Return the keys of a set that can check a signature, and leave out all others, as in RFC 7517 (section 5)."""
    listed = found.get("keys")
    usable: list[Key] = []
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("kty") in ASYMMETRIC:
            with contextlib.suppress(JoseError, ValueError, TypeError, KeyError, AttributeError):
                usable.append(import_key(each))
    return usable


def _client_authentication(description: Mapping[str, Any]) -> str:
    supported = description.get("token_endpoint_auth_methods_supported")
    is_posted = isinstance(supported, list) and supported and "client_secret_basic" not in supported
    return "client_secret_post" if is_posted else "client_secret_basic"
