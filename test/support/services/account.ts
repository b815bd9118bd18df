import { readFileSync } from 'node:fs'

/** A user of this machine, as `spawn` takes it. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

/** Finds the first of these users in the text of a passwd file. */
export function findAccount(passwd: string, users: readonly string[]): Account | undefined {
  for (const user of users) {
    const fields = passwd
      .split('\n')
      .find((line) => line.startsWith(`${user}:`))
      ?.split(':')
    if (fields) return { uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  return undefined
}

/**
 * The account for a server: Postgres and MariaDB refuse root, so root lends them one of `users`; every other user runs
 * them under its own account.
 */
export function serverAccount(users: readonly string[]): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  return findAccount(readFileSync('/etc/passwd', 'utf8'), users)
}
