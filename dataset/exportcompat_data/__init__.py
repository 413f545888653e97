"""Results, specs and advisories of exportcompat, as JSON files. `schema.json` beside this file describes them."""
