
  made_on_demand = {
    is_live = is_live, decoded_lock = decoded_lock, owner_and_expiry = owner_and_expiry,
    find_owned = find_owned, refuse_counter = refuse_counter,
    prepare_takeover = prepare_takeover, extend = extend, is_locked = is_locked,
    lookup_key = lookup_key, lookup_id = lookup_id,
    refuse_repeated_releases = refuse_repeated_releases,
  }
  return made_on_demand
end
