import { until } from '../../handler-job.ts'
import { pool } from '../../postgres-box.ts'
import { check } from '../../prelude.ts'

export { url } from '../../postgres-box.ts'

await pool.query('CREATE TABLE payment (order_id int)')
check('The same program, twice #2', () =>
  until(async () => (await pool.query('SELECT FROM payment WHERE order_id = 7')).rowCount === 1),
)
