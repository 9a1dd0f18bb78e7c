"""The whole product on a small example: a workspace, a confined run, its changes and its report.

The model is scripted, so it needs no key and no network; everything else is real:
the CLI, the jail, the tools, the files.
"""
