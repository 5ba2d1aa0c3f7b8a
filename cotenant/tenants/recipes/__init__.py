"""Recipes: models of others that ship no server of their own, made into generators for `serve --from`.

None of their packages is a dependency; each module says in one sentence what is missing.
"""
