import { chownSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Account } from './account.ts'
import { forgetFolder, keepFolder } from './watchdog-client.ts'

/** A temporary folder that is removed when it is disposed of, or with this process. */
export interface Folder {
  readonly path: string
  [Symbol.asyncDispose](): Promise<void>
}

/** Makes a folder under the system's temporary one, owned by `account` if one is given. */
export function createFolder(name: string, account?: Account): Folder {
  const path = mkdtempSync(join(tmpdir(), `signalbox-${name}-`))
  keepFolder(path)
  if (account) chownSync(path, account.uid, account.gid)
  return {
    path,
    async [Symbol.asyncDispose]() {
      await rm(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
      forgetFolder(path)
    },
  }
}
