import js from '@eslint/js';
import tseslint from 'typescript-eslint';

/** Business streams are appended at the revision that was read, never at `any` (field case P39). */
const noAnyRevision = [
  'error',
  {
    selector: "ImportSpecifier[imported.name='ANY']",
    message: 'Append at the revision that was read: the expected revision `any` de-duplicates nothing.',
  },
  {
    selector: "Property[key.name='expectedRevision'] > Literal[value='any']",
    message: 'Append at the revision that was read: the expected revision `any` de-duplicates nothing.',
  },
];

export default tseslint.config(
  { ignores: ['dist/**', 'node_modules/**', 'data/**'] },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/consistent-type-imports': 'off',
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      'no-empty': ['error', { allowEmptyCatch: false }],
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
      'no-restricted-syntax': noAnyRevision,
    },
  },
  {
    files: ['test/conformance/**/*.ts', 'libs/embedded/**/*.ts'],
    rules: { 'no-restricted-syntax': 'off' },
  },
  {
    files: ['**/*.mjs', '**/*.cjs'],
    languageOptions: {
      globals: {
        process: 'readonly',
        console: 'readonly',
        URL: 'readonly',
        module: 'writable',
        require: 'readonly',
        __dirname: 'readonly',
      },
    },
  },
);
