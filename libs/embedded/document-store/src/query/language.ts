import { accumulatingOperators } from './accumulators.js';
import { defineOperators } from './expressions.js';
import { arrayOperators } from './operators-arrays.js';
import { dateOperators } from './operators-dates.js';
import { numberOperators } from './operators-numbers.js';
import { textOperators } from './operators-texts.js';
import { valueOperators } from './operators-values.js';

defineOperators(valueOperators);
defineOperators(numberOperators);
defineOperators(textOperators);
defineOperators(dateOperators);
defineOperators(arrayOperators);
defineOperators(accumulatingOperators);

export { compileExpression, expressionOperators } from './expressions.js';
