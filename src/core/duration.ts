/**
 * A time: a whole number of milliseconds, or text with a unit such as '250ms', '30s', '1.5m', '24h', '7d'.
 * Text of an environment variable or a file has the type `string`: write `text as Duration`. The function that takes it
 * refuses other text with `invalid_argument`.
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`
