/** The same on a Postgres database of the page's own; and `pool`, on that database. */
import { Pool } from 'pg'
import { type Box, open } from 'signalbox'
import { addresses } from './addresses.ts'
import { around } from './prelude.ts'

export { open } from 'signalbox'

export let box: Box
export const url: string = addresses.postgres!
export const pool: Pool = new Pool({ connectionString: addresses.postgres })

around(async () => {
  box = await open(url)
  return () => box.close()
})
