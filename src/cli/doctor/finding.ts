import { isSignalboxError } from '../../core/errors.ts'

/** One thing that was looked at: what was found, where, and what to do about it. */
export interface Finding {
  readonly level: Level
  /** What was looked at: `node`, `bind`, `tls`, `tokens`, `schema`, … */
  readonly check: string
  /** Where: a setting, a token, a queue, a store. */
  readonly subject: string
  /** What was found. */
  readonly text: string
  /** What to do; null when all is well. */
  readonly advice: string | null
}

/** `warning`: it works, and may hurt one day. `problem`: it does not work, or something is lost or open to others. */
export type Level = 'ok' | 'warning' | 'problem'
export const levels: readonly Level[] = ['ok', 'warning', 'problem']

export function ok(check: string, subject: string, text: string): Finding {
  return { level: 'ok', check, subject, text, advice: null }
}

export function warning(check: string, subject: string, text: string, advice: string): Finding {
  return { level: 'warning', check, subject, text, advice }
}

export function problem(check: string, subject: string, text: string, advice: string): Finding {
  return { level: 'problem', check, subject, text, advice }
}

/**
 * What an error says that may be shown. Our own messages hold no secrets; of others only the code is shown, because theirs
 * may quote an address with its password.
 */
export function reasonOf(error: unknown): string {
  if (isSignalboxError(error)) {
    const code = codeOf(error.cause)
    return code === undefined || error.message.includes(code) ? error.message : `${error.message} (${code})`
  }
  return codeOf(error) ?? 'an unexpected error'
}

/** With a full stop, where it has none. */
export function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/** Such as ECONNREFUSED, 28P01 or, at the head of what a Redis says, WRONGPASS. */
function codeOf(error: unknown): string | undefined {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown }
  if (typeof code === 'string' && /^[\w-]{1,40}$/.test(code)) return code
  return typeof message === 'string' ? /^[A-Z]{4,20}(?= )/.exec(message)?.[0] : undefined
}
