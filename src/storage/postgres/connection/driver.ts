import type { Connection, PoolClient } from 'pg'

/** What the driver has and its types do not. */

/** What `send` sends goes out in one packet: writing to the socket was half of this process's time in a profile. */
export function inOnePacket<Answer>(client: PoolClient, send: () => Answer): Answer {
  const { stream } = (client as unknown as { connection: Connection }).connection
  stream.cork()
  try {
    return send()
  } finally {
    stream.uncork()
  }
}

/** 'I' idle, 'T' in a transaction, 'E' in one that failed. */
export function statusOf(client: unknown): string | null {
  return (client as { getTransactionStatus?(): string | null }).getTransactionStatus?.() ?? null
}
