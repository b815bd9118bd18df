import { MikroORM as MariadbORM } from '@mikro-orm/mariadb'
import { MikroORM as PostgresORM } from '@mikro-orm/postgresql'
import { libraryStories } from './stage.ts'

const settings = { entities: [], discovery: { warnWhenNoEntities: false }, pool: { max: 2 } }
const insert = 'INSERT INTO paid (note) VALUES (?)'

libraryStories('MikroORM', 'postgres', async (clientUrl) => {
  const orm = await PostgresORM.init({ ...settings, clientUrl })
  return {
    transaction: (work) =>
      orm.em.fork().transactional((em) => work(em, (note) => em.execute(insert, [note]))),
    nested: (work) => orm.em.fork().transactional((em) => work(em, (inner) => em.transactional(inner))),
    alone: (note) => orm.em.fork().execute(insert, [note]),
    outside: [orm.em.fork()],
    [Symbol.asyncDispose]: () => orm.close(),
  }
})

libraryStories('MikroORM', 'mariadb', async (clientUrl) => {
  const orm = await MariadbORM.init({ ...settings, clientUrl })
  return {
    transaction: (work) =>
      orm.em.fork().transactional((em) => work(em, (note) => em.execute(insert, [note]))),
    nested: (work) => orm.em.fork().transactional((em) => work(em, (inner) => em.transactional(inner))),
    alone: (note) => orm.em.fork().execute(insert, [note]),
    outside: [orm.em.fork()],
    [Symbol.asyncDispose]: () => orm.close(),
  }
})
