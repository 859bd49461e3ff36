"""The language server: findings, what they mean, and their fixes, while a program is being written."""

import click


def main() -> int:
    """Serve one editor over standard input and output; the exit status. ClickException where pygls is not installed."""
    try:
        import pygls.lsp.server  # noqa: F401
    except ImportError:
        raise click.ClickException('the language server needs pygls: pip install "pygls>=2"') from None
    from wherelint.server.service import serve

    return serve()
