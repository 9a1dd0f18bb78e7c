"""Which host files belong to a workspace: allowed roots, mounts, patterns, links."""
