import { SignalboxError } from './errors.ts'

/**
 * Refuses a URL that is missing, as `process.env.DATABASE_URL` is when the variable is not set. `call` is the function
 * that was given it. What else is wrong with a URL is for its reader to say.
 */
export function requireUrl<Url>(call: string, url: Url): asserts url is Exclude<Url, undefined> {
  if (url !== undefined && url !== null && url !== '') return
  throw new SignalboxError(
    'invalid_argument',
    `${call} got no URL: it is ${url === '' ? 'empty text' : String(url)}. If it comes from an environment variable, set the variable.`,
    { details: { option: 'url' } },
  )
}
