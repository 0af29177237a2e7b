const esm = [
  '@nestjs',
  'cookie',
  'uuid',
  'canonicalize',
  'jose',
  'lru-cache',
  'zod',
  'fast-check',
  'pure-rand',
  'csv-parse',
];

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  testEnvironmentOptions: { customExportConditions: ['source', 'node', 'node-addons'] },
  extensionsToTreatAsEsm: [],
  moduleFileExtensions: ['ts', 'mjs', 'js', 'json', 'node'],
  testMatch: ['<rootDir>/{apps,libs,projections,test}/**/*.spec.ts'],
  transform: { '^.+\\.(ts|m?js)$': ['@swc/jest', { module: { type: 'commonjs' } }] },
  transformIgnorePatterns: [`/node_modules/(?!(${esm.join('|')})(/|$))`],
  moduleNameMapper: {
    '^(\\.{1,2}/.*)\\.js$': '$1',
    '^canonicalize$': '<rootDir>/node_modules/canonicalize/lib/canonicalize.js',
  },
  maxWorkers: 2,
  testTimeout: 20_000,
};
