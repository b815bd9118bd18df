import { hash } from 'node:crypto'

/** What SQL finds a row of the fleet's board by: its key alone may be too wide for an index. */
export function hashFleetKey(key: string): string {
  return hash('sha256', key, 'base64url')
}
