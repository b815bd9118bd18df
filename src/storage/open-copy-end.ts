import { SignalboxError } from '../core/errors.ts'
import type { CopyEnd } from './copy-end.ts'
import { withDriver } from './driver.ts'

/** One end of a copy, by its URL. Only databases that outlive a process are one. */
export async function openCopyEnd(url: string): Promise<CopyEnd> {
  const [scheme = ''] = /^[a-z][a-z0-9+.-]*(?=:)/.exec(url) ?? []
  switch (scheme) {
    case 'sqlite':
      return (await import('./sqlite/copy/copy-end.ts')).openSqliteCopyEnd(url)
    case 'postgres':
    case 'postgresql':
      return (await withDriver('pg', () => import('./postgres/copy/copy-end.ts'))).openPostgresCopyEnd(url)
    case 'mysql':
    case 'mariadb':
      return (await withDriver('mysql2', () => import('./mariadb/copy/copy-end.ts'))).openMariadbCopyEnd(url)
    default:
      // The URL itself is not shown: it may hold a password.
      throw new SignalboxError(
        'invalid_argument',
        `"${scheme}:" cannot be copied from or to${whyNot[scheme] ?? ''}. Use sqlite:FILE, postgres://… or mysql://… (MariaDB).`,
      )
  }
}

const whyNot: Readonly<Record<string, string>> = {
  memory: ': it is gone with its process',
  redis: ': it holds locks and guards alone, which are over once nobody works',
  rediss: ': it holds locks and guards alone, which are over once nobody works',
  http: ': name the database of that server instead',
  https: ': name the database of that server instead',
}
