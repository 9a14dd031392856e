import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["static/vendor/"] },
  js.configs.recommended,
  {
    files: ["static/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      eqeqeq: "error", "no-var": "error", "prefer-const": "error", "no-implicit-globals": "error",
      "no-restricted-properties": ["error",
        { property: "innerHTML", message: "Text of a cluster is never HTML." },
        { property: "outerHTML", message: "Text of a cluster is never HTML." },
        { property: "insertAdjacentHTML", message: "Text of a cluster is never HTML." }],
    },
  },
];
