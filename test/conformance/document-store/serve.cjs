/** Serves one folder from a process of its own, which a spec may kill: `node serve.cjs FOLDER`. Prints the URL. */
const Module = require('node:module');
const { existsSync, readFileSync } = require('node:fs');
const { dirname, join, resolve } = require('node:path');
const { transformSync } = require('@swc/core');

const resolveFilename = Module._resolveFilename;
Module._resolveFilename = function (request, parent, ...rest) {
  const source =
    request.startsWith('.') &&
    request.endsWith('.js') &&
    parent &&
    resolve(dirname(parent.filename), request.replace(/\.js$/, '.ts'));
  return source && existsSync(source) ? source : resolveFilename.call(this, request, parent, ...rest);
};
Module._extensions['.ts'] = (module, filename) => {
  const { code } = transformSync(readFileSync(filename, 'utf8'), { filename, module: { type: 'commonjs' } });
  module._compile(code, filename);
};

const { startDocumentStore } = require(join(__dirname, '../../../libs/embedded/document-store/src/index.ts'));

startDocumentStore({ folder: process.argv[2], port: 0 }).then(
  ({ url }) => process.stdout.write(`${url}\n`),
  (error) => {
    process.stderr.write(`${error.constructor.name}: ${error.message}\n`);
    process.exitCode = 1;
  },
);
