"""Sign-in through an OpenID Connect provider: code flow with PKCE, by Authlib."""
