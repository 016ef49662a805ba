"""The documentation site: what MkDocs needs besides the pages (mkdocs.yml)."""
