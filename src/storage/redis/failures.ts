import { ErrorReply } from '@redis/client'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'

/**
 * What a call that failed means to the caller. Redis's own words are kept as `cause`; the messages here name no address,
 * for addresses carry passwords.
 */

/** The first word of what Redis said, which is its code; undefined when it said nothing. */
export function replyCode(error: unknown): string | undefined {
  return error instanceof ErrorReply ? error.message.split(' ', 1)[0] : undefined
}

/** What others do to it may pass in a moment. */
const busyCodes: ReadonlySet<string> = new Set(['BUSY', 'TRYAGAIN'])

/** The server is not, or no longer, the one to talk to: another connection may find the one that is. */
const wrongServerCodes: ReadonlySet<string> = new Set(['READONLY', 'MASTERDOWN', 'LOADING', 'UNKILLABLE'])

/** Whether a connection that gets this answer had better be made anew. */
export function isStranger(error: unknown): boolean {
  return wrongServerCodes.has(replyCode(error) ?? '')
}

const refusals: Readonly<Record<string, string>> = {
  OOM: 'Redis is out of memory and refuses writes. Raise its maxmemory or free some.',
  MISCONF: 'Redis refuses writes because it cannot save its data. Look at its log and its disk.',
  NOREPLICAS: 'Redis refuses writes because too few replicas follow it.',
  READONLY: 'This Redis is a replica and takes no writes. Give the address of the primary.',
  NOAUTH: 'Redis asks for a password. Put it in the address.',
  WRONGPASS: 'Redis does not know this user and password.',
  NOPERM:
    'This user of Redis may not do what Signalbox needs: scripts, keys and channels that begin with "signalbox:".',
  MOVED:
    'This address is one node of a Redis Cluster and does not have the key. Give one that serves all of it.',
  CLUSTERDOWN: 'This Redis Cluster does not serve all its slots now. Look at its nodes.',
  LOADING: 'Redis is still reading its data from disk. Try again when it is done.',
}

/** The error a store's call ends in. */
export function toStoreError(error: unknown): SignalboxError {
  if (isSignalboxError(error)) return error as SignalboxError
  const code = replyCode(error) ?? ''
  if (busyCodes.has(code)) {
    return new SignalboxError(
      'store_busy',
      'Redis is busy with a long script of another client. Try again.',
      {
        cause: error,
      },
    )
  }
  const words = refusals[code] ?? 'Redis cannot be reached or refused the call; the cause says why.'
  return new SignalboxError('store_unavailable', words, { cause: error })
}

export function noAnswer(ms: number): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `Redis did not answer within ${ms} ms, so it is not known whether the call took. Ask again when it is back.`,
  )
}
