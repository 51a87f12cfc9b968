-- Whether writes are taken: fails where memory is full or the server is a replica. KEYS[1] a key of no meaning.
redis.call('SET', KEYS[1], '', 'PX', 1000)
return redis.call('DEL', KEYS[1])
