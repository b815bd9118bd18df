import type { Client, Connection, Submittable } from 'pg'
import type { Cell } from '../../copy-tables.ts'

/**
 * Rows by COPY: the way in that costs the server least, and the driver has no words for. It is one message with all of
 * them, which is a page of a copy.
 */
export function copyIn(
  client: Client,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Cell[])[],
): Promise<void> {
  const data = Buffer.from(`${rows.map(encodeRow).join('\n')}\n`)
  return new Promise((resolve, reject) => {
    let failure: Error | undefined
    const copying: Submittable & Record<`handle${string}`, (given: never) => void> = {
      submit(connection: Connection) {
        connection.query(`COPY ${table} (${columns.join(', ')}) FROM STDIN`)
      },
      handleCopyInResponse(connection: Connection) {
        const wire = connection as unknown as { sendCopyFromChunk(chunk: Buffer): void; endCopyFrom(): void }
        wire.sendCopyFromChunk(data)
        wire.endCopyFrom()
      },
      handleCommandComplete() {},
      handleError(error: Error) {
        // The server says that it is ready again after it has said what is wrong; a connection that broke does not.
        failure = error
        reject(error)
      },
      handleReadyForQuery() {
        if (failure === undefined) resolve()
      },
    }
    client.query(copying)
  })
}

const special = /[\\\t\n\r]/
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

/** One row in COPY's own text. */
export function encodeRow(row: readonly Cell[]): string {
  let line = ''
  for (let i = 0; i < row.length; i++) {
    if (i > 0) line += '\t'
    const value = row[i]
    if (value === null || value === undefined) line += '\\N'
    else line += special.test(value) ? value.replaceAll(/[\\\t\n\r]/g, (found) => escapes[found]!) : value
  }
  return line
}
