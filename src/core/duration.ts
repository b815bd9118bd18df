/**
 * A span of time: a whole number of milliseconds, or text with a unit such as '250ms', '30s', '1.5m', '24h', '7d'.
 * Text that comes from outside (an environment variable, a file) has the type `string`; write `text as Duration`. What
 * is no span is refused with `invalid_argument` where it is used.
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`
