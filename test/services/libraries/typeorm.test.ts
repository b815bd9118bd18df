import { DataSource } from 'typeorm'
import { type Library, libraryStories } from './stage.ts'

async function connect(type: 'postgres' | 'mariadb', url: string): Promise<Library> {
  const dataSource = await new DataSource({ type, url, poolSize: 2 }).initialize()
  const insert = `INSERT INTO paid (note) VALUES (${type === 'postgres' ? '$1' : '?'})`
  return {
    transaction: (work) =>
      dataSource.transaction((manager) => work(manager, (note) => manager.query(insert, [note]))),
    nested: (work) =>
      dataSource.transaction((manager) => work(manager, (inner) => manager.transaction(inner))),
    alone: (note) => dataSource.query(insert, [note]),
    outside: [dataSource, dataSource.manager, dataSource.createQueryRunner()],
    [Symbol.asyncDispose]: () => dataSource.destroy(),
  }
}

libraryStories('TypeORM', 'postgres', (url) => connect('postgres', url))
libraryStories('TypeORM', 'mariadb', (url) => connect('mariadb', url))

// The other way to a transaction: the caller passes the runner itself.
libraryStories('TypeORM with a query runner', 'postgres', async (url) => {
  const dataSource = await new DataSource({ type: 'postgres', url, poolSize: 2 }).initialize()
  return {
    async transaction(work) {
      const runner = dataSource.createQueryRunner()
      await runner.startTransaction()
      try {
        const result = await work(runner, (note) => runner.query('INSERT INTO paid VALUES ($1)', [note]))
        await runner.commitTransaction()
        return result
      } catch (error) {
        await runner.rollbackTransaction()
        throw error
      } finally {
        await runner.release()
      }
    },
    alone: (note) => dataSource.query('INSERT INTO paid VALUES ($1)', [note]),
    outside: [dataSource.createQueryRunner()],
    [Symbol.asyncDispose]: () => dataSource.destroy(),
  }
})
